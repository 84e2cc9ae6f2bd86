"""Every namespace has a ServiceAccount `default` and the cluster's CA in `kube-root-ca.crt`.

`plan` and `controller` create them; `tokens` and `token_controller` fill Secrets of the type
`kubernetes.io/service-account-token`. The plans are pure.
"""
