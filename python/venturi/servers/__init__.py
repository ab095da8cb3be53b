"""The other end: reference servers, throw-away databases, stores."""
