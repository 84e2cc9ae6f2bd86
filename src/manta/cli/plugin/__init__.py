"""`kubectl ray`: the commands of KubeRay's kubectl plugin over the code of `manta`."""
