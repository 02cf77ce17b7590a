// What clients of the public API send of a definition, reduced to what its type understands. They marshal
// one structure for many types, so that a definition carries keys of other types, empty ones and null.
import type * as z from 'zod'
import { keysAt } from '../../contract/schema/explain.ts'
import type { Definition } from './encrypted-monitor.ts'

/** What the public document and its clients have in one place of a definition, beyond its own type. */
interface Place {
  /** Keys declared there for any type: dropped where the type at hand does not know them. */
  declared?: readonly string[]
  /** Fields whose null means that they are left out: a list is empty then, others have their default. */
  nulls?: readonly string[]
  /** Fields whose empty text or zero means that they were never set, and are left out. */
  blanks?: readonly string[]
  /** Places below; of a list, each of its entries. */
  below?: Readonly<Record<string, Place>>
}

const assertions: Place = { declared: ['edit', 'order', 'arrayIndex', 'arraySelector'] }
const alertSettings: Place = { declared: ['sslCertificates'] }
const DATES = ['createdAt', 'updatedAt'] as const

const CHECK: Place = {
  declared: [
    ...DATES,
    'degradedPacketLossThreshold',
    'degradedResponseTime',
    'dependencies',
    'heartbeat',
    'localSetupScript',
    'localTearDownScript',
    'maxPacketLossThreshold',
    'maxResponseTime',
    'request',
    'script',
    'scriptPath',
    'sslCheck',
    'sslCheckDomain',
  ],
  nulls: [
    'alertChannels',
    'alertChannelSubscriptions',
    'degradedPacketLossThreshold',
    'degradedResponseTime',
    'dependencies',
    'engine',
    'environmentVariables',
    'maxPacketLossThreshold',
    'maxResponseTime',
    'setupSnippetId',
    'tags',
    'tearDownSnippetId',
    'testCommand',
  ],
  // Clients send 0 for an unset limit; as a limit it would fail every run.
  blanks: ['maxResponseTime'],
  below: {
    alertSettings,
    heartbeat: { blanks: ['pingToken'] },
    request: {
      declared: [
        'basicAuth',
        'body',
        'bodyType',
        'data',
        'followRedirects',
        'headers',
        'hostname',
        'ipFamily',
        'method',
        'nameServer',
        'pingCount',
        'port',
        'protocol',
        'query',
        'queryParameters',
        'recordType',
        'skipSSL',
        'sslClientCertificateId',
        'sslConfig',
        'url',
      ],
      nulls: ['assertions', 'headers', 'ipFamily', 'pingCount', 'queryParameters'],
      below: {
        assertions,
        grpcConfig: { nulls: ['metadata'] },
        sslConfig: { nulls: ['serverName'] },
      },
    },
  },
}

const GROUP: Place = {
  declared: [...DATES, 'browserCheckDefaults'],
  nulls: ['alertChannelSubscriptions', 'environmentVariables', 'tags'],
  below: {
    alertSettings,
    apiCheckDefaults: {
      nulls: ['assertions', 'headers', 'queryParameters', 'url'],
      below: { assertions },
    },
  },
}

/** A definition of a check without what means nothing to `schema`, its type. Unknown keys stay in it. */
export function clientCheck(body: Readonly<Definition>, schema: z.ZodType): Definition {
  return reducer(CHECK, schema, [])(body)
}

/** A definition of a group without what means nothing to `schema`. Unknown keys stay in it. */
export function clientGroup(body: Readonly<Definition>, schema: z.ZodType): Definition {
  return reducer(GROUP, schema, [])(body)
}

/** Reduces mappings at `path`. What the schema knows there is looked up once, not for each of a list. */
function reducer(
  { declared = [], nulls = [], blanks = [], below = {} }: Place,
  schema: z.ZodType,
  path: readonly (string | number)[],
): (fields: Readonly<Definition>) => Definition {
  const known = new Set([...keysAt(schema, path), ...keysAt(schema, [...path, 0])])
  const foreign = new Set(declared.filter((key) => !known.has(key)))
  const inner = new Map(
    Object.entries(below).map(([key, place]) => [key, reducer(place, schema, [...path, key])]),
  )
  const isLeftOut = (key: string, value: unknown) =>
    foreign.has(key) ||
    (value === null && nulls.includes(key)) ||
    ((value === '' || value === 0) && blanks.includes(key))
  return (fields) =>
    Object.fromEntries(
      Object.entries(fields)
        .filter(([key, value]) => !isLeftOut(key, value))
        .map(([key, value]) => [key, within(value, inner.get(key))]),
    )
}

function within(value: unknown, reduce: ((fields: Definition) => Definition) | undefined): unknown {
  if (reduce === undefined || typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((one) => within(one, reduce))
  return reduce(value as Definition)
}
