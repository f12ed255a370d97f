"""Import of gRPC that keeps gRPC's own lines off stderr, unless the user has set GRPC_VERBOSITY.

gRPC writes lines such as "I1126 ... chttp2_transport.cc:1403] Got goaway" past Python's logging: into a log of JSON
lines, and across the screens of the console. gRPC reads the variable once, when it is loaded; so a program imports this
module before all others that import grpc. Then the variable is unset again: the training inherits the environment as it
was.
"""

import os

_VARIABLE = "GRPC_VERBOSITY"

if _VARIABLE not in os.environ:
    os.environ[_VARIABLE] = "NONE"
    import grpc.aio  # noqa: F401

    del os.environ[_VARIABLE]
