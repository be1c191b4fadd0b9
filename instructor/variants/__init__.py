"""Right and wrong variants of the solution, and how the tests are run on them.

Read in this order:

    catalog          all variants; each changes one task
    wheats/          right ways to write a task
    chaffs.toml      wrong ones; each is one small edit
    mutators         make wrong ones automatically
    equivalent.toml  mutants that behave like the solution
    runner           run a task's tests on many variants, each in its own process
    direct           run a task's hidden tests on one variant, in this process
"""
