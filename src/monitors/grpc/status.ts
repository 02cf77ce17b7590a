// Status codes of gRPC, and their mapping from other endings of a call: HTTP status codes
// (grpc/doc/http-grpc-status-mapping.md) and errors of HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md).

/** The names of the status codes; the place is the number. */
const STATUS_NAMES = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
] as const

/** Numbers used in the code. */
export const STATUS = {
  OK: 0,
  UNKNOWN: 2,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  RESOURCE_EXHAUSTED: 8,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
} as const

/** The name of a status code; an undefined one counts as UNKNOWN. */
export function statusName(code: number): string {
  return STATUS_NAMES[code] ?? 'UNKNOWN'
}

const BY_HTTP: Readonly<Record<number, number>> = {
  400: 13,
  401: 16,
  403: 7,
  404: 12,
  429: 14,
  502: 14,
  503: 14,
  504: 14,
}

/** The status code of a plain HTTP answer. */
export function statusOfHttp(httpStatus: number): number {
  return BY_HTTP[httpStatus] ?? STATUS.UNKNOWN
}

/** Error codes of HTTP/2 (RFC 9113, section 7); the place is the number. */
const HTTP2_ERRORS = [
  'NO_ERROR',
  'PROTOCOL_ERROR',
  'INTERNAL_ERROR',
  'FLOW_CONTROL_ERROR',
  'SETTINGS_TIMEOUT',
  'STREAM_CLOSED',
  'FRAME_SIZE_ERROR',
  'REFUSED_STREAM',
  'CANCEL',
  'COMPRESSION_ERROR',
  'CONNECT_ERROR',
  'ENHANCE_YOUR_CALM',
  'INADEQUATE_SECURITY',
  'HTTP_1_1_REQUIRED',
] as const

/** The name of an error code of HTTP/2. */
export function http2ErrorName(code: number): string {
  return HTTP2_ERRORS[code] ?? `error ${code}`
}

const BY_HTTP2: Readonly<Record<string, number>> = {
  REFUSED_STREAM: 14,
  CANCEL: 1,
  ENHANCE_YOUR_CALM: 8,
  INADEQUATE_SECURITY: 7,
}

/** The status code of a stream reset with the error of this name. */
export function statusOfReset(errorCode: string): number {
  return BY_HTTP2[errorCode] ?? STATUS.INTERNAL
}

/** A grpc-message as text: percent-encoded UTF-8. Invalid encoding stays as received. */
export function decodedMessage(value: string): string {
  if (!value.includes('%')) return value
  const bytes = Buffer.from(
    value.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    ),
    'latin1',
  )
  return bytes.toString('utf8')
}
