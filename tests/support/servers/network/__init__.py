"""Networks and their servers: TLS certificates, proxies and lines that are cut, SSH, NATS, namespaces."""
