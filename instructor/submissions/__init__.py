"""Who handed in what: from a class's folder or zip to one file for each student.

Read in this order:

    intake    find everyone who handed in anything
    listing   list a folder or a zip in the same way
    archives  unpack the zip of a class or of a student, without trusting it
    exports   recognize the layouts in which course systems export files
    choice    choose which of a student's files is graded
    skipped   count what was not looked at
"""
