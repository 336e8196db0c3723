"""The dialects of model servers: how a request is written, and how a reply is read. Pure."""
