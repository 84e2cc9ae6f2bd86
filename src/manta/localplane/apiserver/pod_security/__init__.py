"""Pod Security Admission: namespace labels (`policy`), Pod Security Standards, admission."""
