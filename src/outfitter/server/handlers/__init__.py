"""Wire → domain → wire, one file per family. A handler is named in its row of `protocol.methods`."""
