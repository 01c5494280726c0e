"""How well each credit ranks the questions of trained policies, beside their exact values."""
