"""What is known of the class, and what is left behind for it.

To be read in this order:

    classlist  who handed in, the roster, points by hand: as the command takes them
    roster     the list of those who could have handed in
    overrides  points that an instructor gives by hand
    lateness   what is taken off for handing in late
    files      write a file whole or not at all
    tables     CSV as course systems and spreadsheets write it
    results    scores.csv, and a folder for every student
    edited     what was changed by hand in a file that is written again
    feedback   the page that a student gets
    uploads    points in the form in which course systems take them
"""
