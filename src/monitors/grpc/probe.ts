// One gRPC check from dialling to the status: the connection, the types if needed, the call, and the evaluation
// of its answer.
import type { GrpcCode } from './definition.ts'
import type { DescMethod, FileRegistry } from '@bufbuild/protobuf'
import type { Failure } from '../../contract/failure.ts'
import { peerPlace } from '../../network/connect-errors.ts'
import { noteConnection, type Progress } from '../../network/dial.ts'
import { endingOf, statusOfFailure, type Ending } from './answer.ts'
import { call, type Answer, type CallOrder } from './call.ts'
import {
  HEALTH_PATH,
  healthRequest,
  readHealth,
  readMessages,
  refuseCardinality,
  unpackAll,
} from './reading.ts'
import { openLink, type Link } from './link.ts'
import { methodIn, requestBytes } from './method.ts'
import { metadataOf } from './metadata.ts'
import { excerpt, type GrpcObserved } from './observed.ts'
import type { Plan } from './plan.ts'
import { reflect } from './reflection.ts'
import { statusName } from './status.ts'
import type { Context } from '../monitor.ts'
import { registryOfText } from './protobuf/text.ts'
import { SchemaProblem } from './protobuf/registry.ts'
import { failureOf, TargetFailure, targetFailure } from '../../network/target-failure.ts'

/** Facts of a check, in addition to its observation. */
export interface Probe {
  observed: GrpcObserved
  failures: Failure[]
  /** The complete answer, if any. */
  answer?: Answer
  /** The answer as JSON text; of a stream, the list of its messages. */
  json: string
}

/** A running check. */
interface Running {
  plan: Plan
  context: Context
  probe: Probe
  progress: Progress
  startedAt: number
}

/** The call of a check, with what is needed to read its answer. */
interface Prepared {
  order: CallOrder
  method?: { registry: FileRegistry; method: DescMethod }
}

/**
 * Runs one check. Faults of the target are in `failures`; rejects with the signal's reason when the
 * run is cancelled. No socket is left in either case.
 */
export async function probeGrpc(plan: Plan, context: Context): Promise<Probe> {
  const { health, method, port } = plan
  const observed: GrpcObserved = { port, mode: 'HEALTH', phases: { totalMs: 0 } }
  if (health !== undefined) observed.service = health
  if (method !== undefined) {
    observed.mode = 'BEHAVIOR'
    observed.method = `${method.service}/${method.method}`
  }
  const probe: Probe = { observed, failures: [], json: '' }
  const startedAt = performance.now()
  const running: Running = { plan, context, probe, progress: { phase: 'dns' }, startedAt }
  let link: Link | undefined
  try {
    // A fault of the settings is reported even if the target is down.
    const known = await knownBefore(plan)
    link = await open(running)
    await converse(running, link, known)
  } catch (error) {
    const failed = failureOf(error, running.progress)
    probe.failures.push(failed)
    const code = statusOfFailure(failed)
    if (observed.statusCode === undefined && code !== undefined) {
      conclude(observed, { code, message: '', origin: 'client' })
    }
  } finally {
    link?.close()
    observed.phases.totalMs = performance.now() - startedAt
  }
  return probe
}

/** The call, if it does not depend on the target. */
async function knownBefore(plan: Plan): Promise<Prepared | undefined> {
  const { health, method: name, definition } = plan
  if (health !== undefined || name === undefined) {
    return { order: { headers: { ':path': HEALTH_PATH }, message: healthRequest(health ?? '') } }
  }
  if (definition === 'REFLECTION') return undefined
  return preparedFor(plan, await registryOfPlan(plan))
}

async function registryOfPlan({ protoContent }: Plan): Promise<FileRegistry> {
  try {
    return await registryOfText(protoContent)
  } catch (error) {
    if (!(error instanceof SchemaProblem)) throw error
    const { line, message } = error
    const where = line === undefined ? '' : ` (line ${line})`
    const details = line === undefined ? {} : { line }
    throw targetFailure<GrpcCode>(
      'GRPC_PROTO_INVALID',
      `the proto text: ${message}${where}`,
      details,
    )
  }
}

function preparedFor(plan: Plan, registry: FileRegistry): Prepared {
  const { method: name, definition, message, messagesMax } = plan
  const method = methodIn(registry, name ?? { service: '', method: '' }, definition)
  const enough = method.proto.serverStreaming ? messagesMax : undefined
  const bytes = requestBytes(message, method, registry)
  return {
    order: {
      headers: { ':path': `/${method.parent.typeName}/${method.name}` },
      message: bytes,
      enough,
    },
    method: { registry, method },
  }
}

/** Connects, with TLS if configured. */
async function open({ plan, context, probe, progress }: Running): Promise<Link> {
  const { dial, signal } = context
  const { observed } = probe
  const { host, port, family } = plan
  const connection = await dial.connect({ host, port, family }, progress, signal)
  noteConnection(observed, connection)
  const peer = peerPlace(plan, connection)
  if (!plan.tls) return openLink(connection.socket, peer, signal)
  const handshake = { serverName: host, settings: plan.tlsSettings, where: peer, alpn: ['h2'] }
  const plain = connection.socket
  const secured = await dial
    .secure(plain, handshake, progress, signal)
    .catch((error: unknown) => refuseAlpn(error, peer))
  const { socket, tlsMs, peer: facts } = secured
  socket.once('close', () => plain.destroy())
  observed.phases.tlsMs = tlsMs
  observed.tls = facts
  const problem = plan.skipSSL ? undefined : facts.failure
  if (problem === undefined && facts.alpn === 'h2') return openLink(socket, peer, signal)
  socket.destroy()
  throw problem === undefined ? noHttp2(peer) : new TargetFailure(problem)
}

function noHttp2(where: string): TargetFailure {
  const message = `${where} does not offer HTTP/2 (ALPN h2), which gRPC needs`
  return targetFailure<GrpcCode>('HTTP2_NOT_SPOKEN', message, { where })
}

/** A server that offers other protocols than ours ends the handshake with an alert. */
function refuseAlpn(error: unknown, peer: string): never {
  const reason = error instanceof TargetFailure ? error.failure.details?.['reason'] : undefined
  throw String(reason).includes('NO_APPLICATION_PROTOCOL') ? noHttp2(peer) : error
}

async function converse(running: Running, link: Link, known: Prepared | undefined): Promise<void> {
  const { probe, progress } = running
  const { order, method } = known ?? (await prepareByReflection(running, link))
  const headers = { ...headersNow(running), ...order.headers }
  const { answer, release } = await call(link, { ...order, headers }, progress)
  try {
    const { phases } = probe.observed
    if (answer.firstByteMs !== undefined) phases.firstByteMs = answer.firstByteMs
    if (answer.downloadMs !== undefined) phases.downloadMs = answer.downloadMs
    const ending = endingOf(answer)
    conclude(probe.observed, ending)
    describe(probe.observed, answer)
    if (ending.failed !== undefined) {
      probe.failures.push(ending.failed)
      return
    }
    probe.answer = answer
    if (method?.method.proto.serverStreaming !== true) refuseCardinality(answer, ending)
    if (method === undefined) await takeHealth(probe, answer)
    else await takeMessages(running, link, answer, method)
    show(probe)
  } finally {
    release()
  }
}

/** The headers with the remaining time, for all hops of the call. */
function headersNow({ plan, startedAt }: Running) {
  const leftMs = Math.max(1, Math.round(plan.deadlineMs - (performance.now() - startedAt)))
  return { ...plan.headers, 'grpc-timeout': `${leftMs}m` }
}

async function prepareByReflection(running: Running, link: Link): Promise<Prepared> {
  const { plan } = running
  return preparedFor(plan, await registryByReflection(running, link, plan.anyTypes))
}

/** The types of the service, and further ones. */
async function registryByReflection(
  running: Running,
  link: Link,
  further: Iterable<string>,
): Promise<FileRegistry> {
  const { plan, probe, progress } = running
  const { observed } = probe
  const { service = '' } = plan.method ?? {}
  const beganAt = performance.now()
  try {
    const order = { service, further }
    const reflected = await reflect(link, order, headersNow(running), progress)
    const { registry, version, files, bytes } = reflected
    observed.reflection = { version, files, bytes }
    return registry
  } finally {
    const tookMs = performance.now() - beganAt
    observed.phases.reflectionMs = (observed.phases.reflectionMs ?? 0) + tookMs
  }
}

function conclude(observed: GrpcObserved, { code, message, origin }: Ending): void {
  observed.statusCode = code
  observed.status = statusName(code)
  if (message !== '') observed.statusMessage = message
  observed.statusOrigin = origin
}

function describe(observed: GrpcObserved, { headers, trailers, messages, bytes }: Answer): void {
  if (headers === undefined) return
  observed.httpStatus = headers[':status'] ?? 0
  observed.response = {
    metadata: metadataOf(headers),
    trailers: metadataOf(trailers),
    messages: messages.length,
    bytes,
  }
  const encoding = headers['grpc-encoding']
  if (typeof encoding === 'string') observed.response.encoding = encoding
}

async function takeHealth(probe: Probe, answer: Answer): Promise<void> {
  const state = await readHealth(answer)
  if (state === undefined) return
  probe.observed.healthStatus = state
  probe.json = JSON.stringify({ status: state })
}

/** Requested types within an Any, at most; more are shown as bytes. */
const FURTHER_TYPES_MAX = 16

async function takeMessages(
  running: Running,
  link: Link,
  answer: Answer,
  { registry, method }: NonNullable<Prepared['method']>,
): Promise<void> {
  const { plan, probe, context } = running
  const messages = await unpackAll(answer)
  let read = await readMessages(messages, method.output, registry, context.signal)
  if (read.unknown.size > 0 && plan.definition === 'REFLECTION') {
    const further = [...plan.anyTypes, ...read.unknown].slice(0, FURTHER_TYPES_MAX)
    const larger = await registryByReflection(running, link, further)
    const output = larger.getMessage(method.output.typeName) ?? method.output
    read = await readMessages(messages, output, larger, context.signal)
  }
  const { texts } = read
  probe.json = method.proto.serverStreaming ? `[${texts.join(',')}]` : (texts[0] ?? '')
}

function show({ observed, json }: Probe): void {
  if (observed.response === undefined || json === '') return
  const { body, bodyTruncated } = excerpt(json)
  observed.response.body = body
  observed.response.bodyTruncated = bodyTruncated
}
