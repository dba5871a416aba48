"""Choice between hashers by retrieval on rows and classes that were left out of training; nothing about methods.

``sample`` draws rows of any source, ``splits`` leaves rows and classes out, ``candidates`` lists what can be chosen,
``trial`` fits and scores it, ``choice`` chooses, and ``report`` shows all of it.
"""
