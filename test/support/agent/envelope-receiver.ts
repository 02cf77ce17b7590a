// A receiver of Sentry's protocol that accepts only exact envelopes. Its parser shares no code with the program.
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FaultEvent } from '../../../src/process/faults/event.ts'
import { eventually } from '../eventually.ts'
import type { KeyPair } from '../network/certificates.ts'
import { startHttpServer, startHttpsServer } from '../test-server.ts'

export interface ReceivedEvent {
  url: string
  headers: IncomingMessage['headers']
  event: FaultEvent
}

interface Answer {
  status: number
  headers?: Record<string, string>
}

/** A started one. */
export type EnvelopeReceiver = Awaited<ReturnType<typeof startEnvelopeReceiver>>

export const DSN_KEY = 'dsnkey0123456789abcdef'

/** Starts it. */
export async function startEnvelopeReceiver(tls?: KeyPair) {
  const received: ReceivedEvent[] = []
  const requests = new EventTarget()
  let all = ''
  const onRequest = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    all += `${request.method} ${request.url}\n${request.rawHeaders.join('\n')}\n${body.toString()}`
    requests.dispatchEvent(new Event('request'))
    const { answer } = receiver
    if (answer === undefined) return
    try {
      const event = readStrictly(request, body)
      received.push({ url: request.url ?? '', headers: request.headers, event })
      response.writeHead(answer.status, answer.headers).end(`{"id":"${event.event_id}"}`)
    } catch (error) {
      response.writeHead(400).end((error as Error).message)
      throw error
    }
  }
  const listener = (request: IncomingMessage, response: ServerResponse) =>
    void onRequest(request, response)
  const server = await (tls === undefined
    ? startHttpServer(listener)
    : startHttpsServer(tls, listener))
  const scheme = tls === undefined ? 'http' : 'https'
  /** How it answers from now on; `undefined`: not at all. */
  const answers: { answer: Answer | undefined } = { answer: { status: 200 } }
  const receiver = Object.assign(server, answers, {
    /** Its DSN, for the project 7. */
    dsn: `${scheme}://${DSN_KEY}@${server.authority}/7`,
    received,
    /** All that arrived, heads of requests included. */
    bytes: (): string => all,
    /** The next request, answered or not. */
    request: (): Promise<unknown> => once(requests, 'request'),
    /** The first event, past or future, that fits. */
    event: (fits: (one: ReceivedEvent) => boolean = () => true): Promise<ReceivedEvent> =>
      eventually(() => received.find(fits), { everyMs: 5 }),
  })
  return receiver
}

const AUTH = /^Sentry sentry_version=7, sentry_client=vedette\/\d+\.\d+\.\d+, sentry_key=[\w-]+$/
const EVENT_KEYS = 'contexts,event_id,exception,level,platform,release,timestamp'

/** The one event of an envelope; throws on any deviation and any extra field. */
function readStrictly({ method, headers }: IncomingMessage, body: Buffer): FaultEvent {
  must(method === 'POST', 'POST')
  must(headers['content-type'] === 'application/x-sentry-envelope', 'its content type')
  must(Number(headers['content-length']) === body.length, 'its length')
  const auth = headers['x-sentry-auth']
  must(auth === undefined || AUTH.test(String(auth)), 'its key')
  const [head = '', itemHead = '', item = '', end, ...more] = body.toString().split('\n')
  must(end === '' && more.length === 0, 'three lines')
  const { event_id: id, sent_at: sentAt, sdk } = JSON.parse(head) as Record<string, unknown>
  must(
    keysOf(head) === 'event_id,sdk,sent_at' && keysOf(JSON.stringify(sdk)) === 'name,version',
    'its head',
  )
  must(Math.abs(Date.parse(String(sentAt)) - Date.now()) < 60_000, 'its time')
  const { type, length } = JSON.parse(itemHead) as Record<string, unknown>
  must(keysOf(itemHead) === 'content_type,length,type' && type === 'event', 'the head of its item')
  must(length === Buffer.byteLength(item), 'the length of its item')
  const event = JSON.parse(item) as FaultEvent
  must(keysOf(item) === EVENT_KEYS, 'nothing else in the event')
  must(event.event_id === id && /^[0-9a-f]{32}$/.test(event.event_id), 'its id')
  must(
    keysOf(JSON.stringify(event.contexts)) === 'device,os,runtime',
    'nothing else of the machine',
  )
  must(Math.abs(event.timestamp * 1000 - Date.now()) < 60_000, 'the time of the event')
  for (const { stacktrace } of event.exception.values) {
    for (const { filename } of stacktrace?.frames ?? []) {
      must(/^(src|test|node_modules)\/|^node:/.test(filename), 'files of the program')
    }
  }
  return event
}

function must(holds: boolean, what: string): void {
  if (!holds) throw new Error(`an envelope must have ${what}`)
}

function keysOf(json: string): string {
  return Object.keys(JSON.parse(json) as object)
    .toSorted()
    .join()
}
