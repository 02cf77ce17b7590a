// The HTTP client of the platform, as far as delivery needs it.
import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'

/** A call. */
export interface DeliveryAsk {
  method: 'POST' | 'PUT'
  path: string
  headers?: Record<string, string>
  body: Buffer | Readable
  bytes?: number
  deadlineMs: number
  signal: AbortSignal
}

/** Sends calls; rejects with an error that has a `code` when there is no usable answer. */
export interface DeliveryLink {
  request(ask: DeliveryAsk): Promise<{ status: number; headers: IncomingHttpHeaders; body: Buffer }>
}
