// Reads descriptors, the binary form of .proto files that reflection answers with: the fields of
// google/protobuf/descriptor.proto that the codec needs, and nothing else of them.
import { ProtobufMalformed, readFields, WIRE, WireReader } from './wire.ts'

/** Settings of editions that a file, a message and a field may each change (FeatureSet). */
export interface Features {
  /** 1 explicit, 2 implicit, 3 required. */
  fieldPresence?: number
  /** 1 packed, 2 expanded. */
  repeatedEncoding?: number
  /** 1 with a length, 2 as a group. */
  messageEncoding?: number
}

/** FieldDescriptorProto. */
export interface FieldDescriptor {
  name: string
  number: number
  /** 1 optional, 2 required, 3 repeated. */
  label: number
  /** Number of the type, 1 to 18. */
  type: number
  typeName: string
  /** The message that an extension extends. */
  extendee: string
  jsonName: string
  oneofIndex: number | undefined
  proto3Optional: boolean
  packed: boolean | undefined
  features: Features | undefined
}

/** DescriptorProto. */
export interface MessageDescriptor {
  name: string
  fields: FieldDescriptor[]
  extensions: FieldDescriptor[]
  nested: MessageDescriptor[]
  enums: EnumDescriptor[]
  /** Names of its oneofs. */
  oneofs: string[]
  mapEntry: boolean
  features: Features | undefined
}

/** EnumDescriptorProto. */
export interface EnumDescriptor {
  name: string
  values: { name: string; number: number }[]
}

/** MethodDescriptorProto. */
export interface MethodDescriptor {
  name: string
  input: string
  output: string
  clientStreaming: boolean
  serverStreaming: boolean
}

/** FileDescriptorProto. */
export interface FileDescriptor {
  name: string
  package: string
  dependencies: string[]
  messages: MessageDescriptor[]
  enums: EnumDescriptor[]
  services: { name: string; methods: MethodDescriptor[] }[]
  extensions: FieldDescriptor[]
  /** `proto2`, `proto3` or `editions`; empty for proto2. */
  syntax: string
  features: Features | undefined
}

/** Nesting depth of message definitions, at most. */
const NESTING_MAX = 32

/** Reads a file. Throws ProtobufMalformed. */
export function readFile(bytes: Buffer): FileDescriptor {
  const file: FileDescriptor = {
    name: '',
    package: '',
    dependencies: [],
    messages: [],
    enums: [],
    services: [],
    extensions: [],
    syntax: '',
    features: undefined,
  }
  readFields(bytes, {
    1: (reader) => (file.name = reader.text()),
    2: (reader) => (file.package = reader.text()),
    3: (reader) => file.dependencies.push(reader.text()),
    4: (reader) => file.messages.push(readMessage(reader.bytes(), 0)),
    5: (reader) => file.enums.push(readEnum(reader.bytes())),
    6: (reader) => file.services.push(readService(reader.bytes())),
    7: (reader) => file.extensions.push(readField(reader.bytes())),
    8: (reader) => (file.features = readFeatures(reader.bytes(), 50)),
    12: (reader) => (file.syntax = reader.text()),
  })
  return file
}

function readMessage(bytes: Buffer, depth: number): MessageDescriptor {
  if (depth > NESTING_MAX) throw new ProtobufMalformed('types are nested too deep')
  const message: MessageDescriptor = {
    name: '',
    fields: [],
    extensions: [],
    nested: [],
    enums: [],
    oneofs: [],
    mapEntry: false,
    features: undefined,
  }
  readFields(bytes, {
    1: (reader) => (message.name = reader.text()),
    2: (reader) => message.fields.push(readField(reader.bytes())),
    3: (reader) => message.nested.push(readMessage(reader.bytes(), depth + 1)),
    4: (reader) => message.enums.push(readEnum(reader.bytes())),
    6: (reader) => message.extensions.push(readField(reader.bytes())),
    7(reader) {
      const options = reader.bytes()
      readFields(options, { 7: (inner) => (message.mapEntry = inner.int32() !== 0) })
      message.features = readFeatures(options, 12)
    },
    8: (reader) => readFields(reader.bytes(), { 1: (inner) => message.oneofs.push(inner.text()) }),
  })
  return message
}

function readField(bytes: Buffer): FieldDescriptor {
  const field: FieldDescriptor = {
    name: '',
    number: 0,
    label: 1,
    type: 0,
    typeName: '',
    extendee: '',
    jsonName: '',
    oneofIndex: undefined,
    proto3Optional: false,
    packed: undefined,
    features: undefined,
  }
  readFields(bytes, {
    1: (reader) => (field.name = reader.text()),
    2: (reader) => (field.extendee = reader.text()),
    3: (reader) => (field.number = reader.int32()),
    4: (reader) => (field.label = reader.int32()),
    5: (reader) => (field.type = reader.int32()),
    6: (reader) => (field.typeName = reader.text()),
    8(reader) {
      const options = reader.bytes()
      readFields(options, { 2: (inner) => (field.packed = inner.int32() !== 0) })
      field.features = readFeatures(options, 21)
    },
    9: (reader) => (field.oneofIndex = reader.int32()),
    10: (reader) => (field.jsonName = reader.text()),
    17: (reader) => (field.proto3Optional = reader.int32() !== 0),
  })
  return field
}

function readEnum(bytes: Buffer): EnumDescriptor {
  const type: EnumDescriptor = { name: '', values: [] }
  readFields(bytes, {
    1: (reader) => (type.name = reader.text()),
    2(reader) {
      const value = { name: '', number: 0 }
      readFields(reader.bytes(), {
        1: (inner) => (value.name = inner.text()),
        2: (inner) => (value.number = inner.int32()),
      })
      type.values.push(value)
    },
  })
  return type
}

function readService(bytes: Buffer): FileDescriptor['services'][number] {
  const service: FileDescriptor['services'][number] = { name: '', methods: [] }
  readFields(bytes, {
    1: (reader) => (service.name = reader.text()),
    2(reader) {
      const method: MethodDescriptor = {
        name: '',
        input: '',
        output: '',
        clientStreaming: false,
        serverStreaming: false,
      }
      readFields(reader.bytes(), {
        1: (inner) => (method.name = inner.text()),
        2: (inner) => (method.input = inner.text()),
        3: (inner) => (method.output = inner.text()),
        5: (inner) => (method.clientStreaming = inner.int32() !== 0),
        6: (inner) => (method.serverStreaming = inner.int32() !== 0),
      })
      service.methods.push(method)
    },
  })
  return service
}

/** The features within options, where they stand under `number`. */
function readFeatures(options: Buffer, number: number): Features | undefined {
  let features: Features | undefined
  const reader = new WireReader(options)
  while (!reader.isAtEnd) {
    const tag = reader.tag()
    if (tag !== number * 8 + WIRE.bytes) {
      reader.pass(tag)
      continue
    }
    const found: Features = {}
    readFields(reader.bytes(), {
      1: (inner) => (found.fieldPresence = inner.int32()),
      3: (inner) => (found.repeatedEncoding = inner.int32()),
      5: (inner) => (found.messageEncoding = inner.int32()),
    })
    features = found
  }
  return features
}
