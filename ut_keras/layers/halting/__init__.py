"""Who is done when: the halting rules."""

from ut_keras.layers import members_before

__getattr__ = members_before(__name__)
