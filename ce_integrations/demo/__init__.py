"""What the demos of all frameworks share: the talk, the documents, the offline model's rule, and the run."""

from __future__ import annotations
