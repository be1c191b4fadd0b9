"""Who handed in what: from a class's folder or zip to one file for each student.

To be read in this order:

    intake    find everybody who handed in anything
    listing   a folder and a zip as the same list of names
    archives  zips, of a class or of one student, unpacked without trusting them
    exports   the forms in which course systems hand files over
    choice    which of a student's files is graded
    skipped   what was not looked at, counted
"""
