"""Prints `tfscale/v1/report_fields.py`, the fields of the messages between probe and agent, for scripts/ci/protos."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
from tfscale.v1 import report_pb2

ROOTS = ("TaskReport", "ReportReply")
HEAD = '''"""Fields of the messages between probe and agent, for a process that may have any protobuf, or none.

Generated from the .proto files by scripts/ci/protos.  DO NOT EDIT!
"""
'''
KINDS = {
    FieldDescriptor.TYPE_BOOL: "number",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_INT32: "number",
    FieldDescriptor.TYPE_STRING: "text",
    FieldDescriptor.TYPE_UINT32: "number",
    FieldDescriptor.TYPE_UINT64: "number",
}


def main() -> None:
    roots = [report_pb2.DESCRIPTOR.message_types_by_name[name] for name in ROOTS]
    messages = [*dict.fromkeys(message for root in roots for message in _reached(root))]
    print(HEAD)
    print("MESSAGES = {")
    for message in messages:
        described = DescriptorProto()
        message.CopyToProto(described)
        rows = "".join(f"        {_row(*pair)},\n" for pair in zip(message.fields, described.field, strict=True))
        print(f'    "{message.name}": (\n{rows}    ),')
    print('}\n"""Rows of each message: name, number, type, whether it is repeated, whether a zero is written."""')
    enums = {field.enum_type for message in messages for field in message.fields if field.enum_type}
    print("ENUMS = {")
    for enum in sorted(enums, key=lambda enum: enum.name):
        print(f'    "{enum.name}": {_members(enum)},')
    print('}\n"""Numbers of the members of each enum."""')


def _reached(message: Descriptor) -> Iterator[Descriptor]:
    """Yield a message and those of its fields."""
    yield message
    for field in message.fields:
        if field.message_type is not None:
            yield from _reached(field.message_type)


def _row(field: FieldDescriptor, described: FieldDescriptorProto) -> tuple[Any, ...]:
    named = field.message_type or field.enum_type
    kind = named.name if named else KINDS[field.type]
    is_repeated = described.label == FieldDescriptorProto.LABEL_REPEATED
    return field.name, field.number, kind, is_repeated, field.has_presence


def _members(enum: Any) -> dict[str, int]:
    """Return the numbers by the names of a record's members: `RUNNING` for `TASK_STATE_RUNNING`."""
    prefix = "".join(f"_{char}" if char.isupper() else char.upper() for char in enum.name).lstrip("_") + "_"
    return {value.name.removeprefix(prefix): value.number for value in enum.values if value.number}


if __name__ == "__main__":
    main()
