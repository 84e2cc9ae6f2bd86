"""Every namespace has a ServiceAccount `default` and the cluster's CA in `kube-root-ca.crt`."""
