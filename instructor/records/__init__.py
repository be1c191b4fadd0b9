"""The class list, and the files written for the class.

Read in this order:

    classlist  submissions, roster and overrides, as the command's options give them
    roster     everyone who could have handed in
    overrides  points that an instructor sets by hand
    lateness   the deduction for late work
    files      write a file atomically
    tables     CSV as course systems and spreadsheets write it
    results    scores.csv, and a folder for every student
    edited     keep what was changed by hand in a file that is written again
    feedback   the page that a student gets
    uploads    points in the formats that course systems import
"""
