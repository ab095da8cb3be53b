"""The link laboratory: client and server of a trial in network namespaces, with a link between them."""
