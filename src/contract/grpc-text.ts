// Texts of gRPC monitors that have a form of their own: names of methods, and metadata. One reading of them
// both for who checks a definition and for who runs it.

/** A method as the monitor names it. */
export interface MethodName {
  service: string
  method: string
}

/** `package.Service/Method`, with a leading slash or a dot in the slash's place as well; undefined for others. */
export function grpcMethodName(text: string): MethodName | undefined {
  const bare = text.trim().replace(/^\//, '')
  const slash = bare.includes('/') ? bare.indexOf('/') : bare.lastIndexOf('.')
  const service = bare.slice(0, Math.max(0, slash))
  const method = bare.slice(slash + 1)
  return /^[\w.]+$/.test(service) && /^\w+$/.test(method) ? { service, method } : undefined
}

const NAME = /^[0-9a-z_.-]+$/
/** Printable ASCII. */
const VALUE = /^[\x20-\x7e]*$/
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/

/** Headers set by the protocol (PROTOCOL-HTTP2.md) or forbidden by HTTP/2 (RFC 9113, 8.2.2). */
const RESERVED: ReadonlySet<string> = new Set([
  'te',
  'content-type',
  'content-length',
  'host',
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
])

/** Why metadata cannot be sent, with its name in lower case; undefined where it can. Shows no value. */
export function metadataProblem(name: string, value: string): string | undefined {
  if (!NAME.test(name)) return 'has a character that gRPC does not allow in names'
  if (RESERVED.has(name) || (name.startsWith('grpc-') && !name.endsWith('-bin'))) {
    return 'is set by the protocol itself'
  }
  if (name.endsWith('-bin')) return BASE64.test(value) ? undefined : 'must be base64'
  return VALUE.test(value) ? undefined : 'has a character other than printable ASCII'
}
