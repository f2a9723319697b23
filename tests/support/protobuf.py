"""A small .proto file as a descriptor set, made without protoc."""

from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2

_F = descriptor_pb2.FieldDescriptorProto


def _field(name, number, kind, label=_F.LABEL_OPTIONAL, type_name=None, **others):
    return _F(name=name, number=number, type=kind, label=label, type_name=type_name, **others)


def reading_set():
    """Return the descriptor set of the file that the module makes."""
    entry = descriptor_pb2.DescriptorProto(
        name="CountsEntry",
        field=[_field("key", 1, _F.TYPE_INT32), _field("value", 2, _F.TYPE_INT64)],
        options=descriptor_pb2.MessageOptions(map_entry=True),
    )
    place = descriptor_pb2.DescriptorProto(name="Place", field=[_field("lat", 1, _F.TYPE_DOUBLE)])
    reading = descriptor_pb2.DescriptorProto(
        name="Reading",
        nested_type=[entry],
        oneof_decl=[{"name": "_note"}],
        field=[
            _field("id", 1, _F.TYPE_STRING),
            _field("at", 2, _F.TYPE_INT64),
            _field("note", 3, _F.TYPE_STRING, oneof_index=0, proto3_optional=True),
            _field("kind", 4, _F.TYPE_ENUM, type_name=".sensors.Kind"),
            _field("place", 5, _F.TYPE_MESSAGE, type_name=".sensors.Place"),
            _field("tags", 6, _F.TYPE_STRING, _F.LABEL_REPEATED),
            _field("counts", 7, _F.TYPE_MESSAGE, _F.LABEL_REPEATED, ".sensors.Reading.CountsEntry"),
            _field("raw", 8, _F.TYPE_BYTES),
            _field("seen", 9, _F.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp"),
            _field("limit", 10, _F.TYPE_MESSAGE, type_name=".google.protobuf.DoubleValue"),
            _field("big", 11, _F.TYPE_UINT64),
        ],
    )
    node = descriptor_pb2.DescriptorProto(
        name="Node", field=[_field("next", 1, _F.TYPE_MESSAGE, type_name=".sensors.Node")]
    )
    kinds = descriptor_pb2.EnumDescriptorProto(
        name="Kind",
        value=[{"name": "UNKNOWN", "number": 0}, {"name": "INDOOR", "number": 1}],
    )
    sensors = descriptor_pb2.FileDescriptorProto(
        name="sensors.proto",
        package="sensors",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"],
        message_type=[place, reading, node],
        enum_type=[kinds],
    )
    files = descriptor_pb2.FileDescriptorSet(file=[sensors])
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    wrappers_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    return files.SerializeToString()


READING_SET = reading_set()
