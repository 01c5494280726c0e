"""Methods, one module each: what it samples, how it credits, what it trains on."""
