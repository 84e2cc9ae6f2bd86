"""`python_client.utils`: the name of the package is KubeRay's."""
