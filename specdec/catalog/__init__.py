"""Dated facts about models, instances, regions, serving stacks and prices."""
