"""CreditBench: any credit, scored on frozen material."""
