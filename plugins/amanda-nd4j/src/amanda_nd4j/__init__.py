"""nd4j, the array library of Deeplearning4j: its dictionary and mappings."""
