"""A plug-in whose manifest is faulty."""


class Format:
    def read(self, source):
        raise NotImplementedError
