"""nd4j, the array library of Deeplearning4j: its ops, read from its own files."""
