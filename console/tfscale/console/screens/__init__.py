"""What fills the terminal: the cluster, one task, a question, help."""
