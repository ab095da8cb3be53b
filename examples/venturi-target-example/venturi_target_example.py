"""`socketpair://` for Venturi: Arrow IPC through a socket pair, to and from a thread of this process."""

import contextlib
import socket
import threading

import pyarrow as pa

from venturi.plugin import Parameter, digest


class Target:
    interface = 1  # of venturi.plugin, as it was when this was written
    name = "Arrow IPC through a socket pair"
    operations = ("get", "put")
    parameters = (
        Parameter("codec", "Codec of the batches' bodies: lz4, zstd or none", values=("lz4", "zstd")),
        Parameter("buffer", "Bytes that each socket holds, as 64Ki", int, 256 * 1024),
    )

    def plan(self, trial):
        return Pairs(trial)


class Pairs:
    """One trial: a pair of sockets a stream, and a thread at the far one."""

    address = "a thread of this process"

    def __init__(self, trial):
        self.trial = trial
        self.options = pa.ipc.IpcWriteOptions(compression=trial.parameters["codec"])
        self.ends = []

    def pair(self):
        ends = socket.socketpair()
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.trial.parameters["buffer"])
        self.ends += ends
        return ends

    def produce(self, stream):
        """A get: what arrives is an Arrow stream as it is."""
        near, far = self.pair()
        threading.Thread(target=self.send, args=[far], daemon=True).start()
        return pa.ipc.open_stream(near.makefile("rb"))

    def send(self, far):
        # A trial that ends with its time closes the near end.
        with contextlib.suppress(BrokenPipeError, ConnectionError), far, far.makefile("wb") as sink:
            reader = pa.RecordBatchReader.from_stream(self.trial.stream())
            with pa.ipc.new_stream(sink, reader.schema, options=self.options) as writer:
                for batch in reader:
                    writer.write_batch(batch)

    def consume(self, stream):
        return Sender(*self.pair(), self.trial.rows.schema, self.options)

    def close(self):
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Sender:
    """One stream of a put; its far end counts, and adds up the digests of what it got."""

    def __init__(self, near, far, schema, options):
        self.near, self.sink = near, near.makefile("wb")
        self.writer = pa.ipc.new_stream(self.sink, schema, options=options)
        self.rows = self.digest = 0
        self.error = None
        self.thread = threading.Thread(target=self.receive, args=[far], daemon=True)
        self.thread.start()

    def receive(self, far):
        try:
            with far.makefile("rb") as source:
                for batch in pa.ipc.open_stream(source):
                    self.rows += batch.num_rows
                    self.digest += digest(batch)
        except Exception as error:
            self.error = error

    def write(self, batch):
        self.writer.write_batch(pa.record_batch(batch))

    def finish(self):
        self.writer.close()
        self.sink.close()
        self.near.shutdown(socket.SHUT_WR)
        self.thread.join()
        if self.error is not None:
            raise self.error
        return self.rows, self.digest
