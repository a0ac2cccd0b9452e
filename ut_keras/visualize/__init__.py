"""Pictures of what a model does with an example: where its heads look, how long it ponders.

    from ut_keras.visualize import figures, observer
    seen = observer.observe(model, features, encoders)      arrays and labels, an `Observation`
    seen = run.observe("Two dogs are playing.")             the same, of a run that is loaded
    figures.attention(seen), figures.ponder(seen)           matplotlib figures

Figures need matplotlib (`pip install 'ut_keras[plot]'`).
"""
