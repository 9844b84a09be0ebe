"""The nodes of a GraphDef: attributes, names, references to values, both ways."""
