// Metadata: names and values sent with a call and received with its answer. Values of names that end in -bin
// are bytes, written as base64 on both sides.
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2'
import { failure, type Failure } from '../../contract/failure.ts'
import { metadataProblem } from '../../contract/grpc-text.ts'

/** Metadata of an answer: a list if a name occurs more than once. */
export type Metadata = Record<string, string | string[]>

/** An entry as the user writes it. */
export interface Entry {
  key: string
  value: string
}

/** The headers for the entries, or why they cannot be sent. No message shows a value. */
export function headersOf(
  entries: readonly Entry[],
): { headers: OutgoingHttpHeaders } | { failure: Failure } {
  const headers: Record<string, string | string[]> = Object.create(null) as Record<string, string>
  for (const { key, value } of entries) {
    const name = key.toLowerCase()
    const problem = metadataProblem(name, value)
    if (problem !== undefined) {
      const message = `the metadata entry ${JSON.stringify(key)} ${problem}`
      return { failure: failure('SETTINGS_INVALID', message, { metadata: key }) }
    }
    const sent = name.endsWith('-bin') ? unpadded(value) : value.trim()
    const known = headers[name]
    if (known === undefined) headers[name] = sent
    else headers[name] = Array.isArray(known) ? [...known, sent] : [known, sent]
  }
  return { headers }
}

function unpadded(value: string): string {
  return value.replaceAll('-', '+').replaceAll('_', '/').replace(/=+$/, '')
}

/** Headers that belong to the call itself rather than to its metadata. */
const OF_THE_CALL: ReadonlySet<string> = new Set([
  ':status',
  'grpc-status',
  'grpc-message',
  'grpc-encoding',
  'grpc-accept-encoding',
  'accept-encoding',
])

/** Metadata of a section of headers or trailers, without the protocol's own fields. */
export function metadataOf(headers: IncomingHttpHeaders | undefined): Metadata {
  const metadata = Object.create(null) as Metadata
  for (const [name, value] of Object.entries(headers ?? {})) {
    if (OF_THE_CALL.has(name) || value === undefined || value === null) continue
    metadata[name] = value
  }
  return metadata
}

/** The value of a name in the first of the sections that has it; several are joined by `, `. */
export function metadataValue(
  name: string,
  sections: readonly (IncomingHttpHeaders | undefined)[],
): string | undefined {
  const key = name.toLowerCase()
  for (const section of sections) {
    const value = section?.[key]
    if (value !== undefined) return Array.isArray(value) ? value.join(', ') : value
  }
  return undefined
}
