"""Right and wrong variants of the solution, and how the tests are run on them.

To be read in this order:

    catalog          all variants, one task changed in each
    wheats/          right ways to write a task
    chaffs.toml      wrong ones, one small edit each
    mutators         wrong ones made by machine
    equivalent.toml  those of them that do what the solution does
    runner           the tests of one task on many variants, a process each
    direct           the hidden tests of one task on one variant, in this process
"""
