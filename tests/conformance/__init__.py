"""Runs interlock against recorded outcomes of the reference runtime.

``python -m tests.conformance [DIR]`` runs a folder of scenarios; ``test_conformance.py`` runs the ones beside it.

A scenario is read (``scenario``), carried out by a real agent whose model, tools and processors play the scenario's
script (``model``, ``tools``, ``processors``, ``operations``, ``run``), and what happened is put into the recorded form
(``observe``). Where interlock's specification asks for something else than was recorded, ``divergences`` names the
rule and ``oracle``, a plain re-simulation of the scenario by the specification, gives the value (``expected``). The
rest is a strict comparison (``compare``).
"""
