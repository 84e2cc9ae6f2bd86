"""Pod Security Admission: the labels of a namespace, the Pod Security Standards, and who is refused."""
