"""Do the numbers that the paper prints agree with each other?"""
