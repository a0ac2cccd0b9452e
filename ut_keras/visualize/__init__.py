"""Plot attention, ponder times and steps for one example.

    from ut_keras.visualize import figures, observer
    seen = observer.observe(model, features, encoders)      arrays and labels, an `Observation`
    seen = run.observe("Two dogs are playing.")             the same for a loaded run
    figures.attention(seen), figures.ponder(seen), figures.steps(seen)      matplotlib figures

Figures require matplotlib (in a clone of ut_keras, `pip install -e '.[plot]'`).
"""
