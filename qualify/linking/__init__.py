"""What binaries take from each other: exports, imports, and how they are resolved, without loading anything."""
