"""What ``after:`` keeps of matches: put in order, then one after the other held against the border of its partition."""
