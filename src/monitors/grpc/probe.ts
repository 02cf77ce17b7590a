// One gRPC check from dialling to the status: the connection, the types if needed, the call, and the evaluation
// of its answer.
import type { GrpcCode } from './definition.ts'
import type { DescMethod, FileRegistry } from '@bufbuild/protobuf'
import type { Failure } from '../../contract/failure.ts'
import type { Progress } from '../../network/dial.ts'
import {
  endingOf,
  HEALTH_PATH,
  healthRequest,
  healthState,
  readMessages,
  refuseCardinality,
  statusName,
  statusOfFailure,
  unpackAll,
  type Ending,
} from './answer.ts'
import { call, Link, type Answer, type CallOrder } from './call.ts'
import { excerpt, type GrpcObserved, metadataOf } from './observed.ts'
import type { Plan } from './plan.ts'
import { reflect } from './reflection.ts'
import type { Context } from '../monitor.ts'
import { reach } from '../probe.ts'
import { encodeMessage } from './protobuf/encode.ts'
import { methodIn } from './protobuf/registry.ts'
import { registryOfText } from './protobuf/text.ts'
import type { MethodName } from '../../contract/grpc-text.ts'
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
  const { health, method, endpoint } = plan
  const observed: GrpcObserved = { port: endpoint.port, mode: 'HEALTH', phases: { totalMs: 0 } }
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
  const { method, request } = plan
  if (method === undefined) {
    const message = healthRequest(plan.health ?? '')
    return { order: { headers: { ':path': HEALTH_PATH }, message } }
  }
  if (!isByText(plan)) return undefined
  return preparedFor(plan, method, await registryOfText(request.grpcConfig.protoContent ?? ''))
}

function isByText({ request }: Plan): boolean {
  return request.grpcConfig.serviceDefinition === 'PROTO_FILE'
}

function preparedFor(plan: Plan, name: MethodName, registry: FileRegistry): Prepared {
  const { message = '', messagesMax } = plan.request.grpcConfig
  const method = methodIn(registry, name, isByText(plan))
  return {
    order: {
      headers: { ':path': `/${method.parent.typeName}/${method.name}` },
      message: encodeMessage(message, method.input, registry),
      enough: method.proto.serverStreaming ? messagesMax : undefined,
    },
    method: { registry, method },
  }
}

/** Connects, with TLS if configured. */
async function open({ plan, context, probe, progress }: Running): Promise<Link> {
  const { observed } = probe
  const { endpoint, request } = plan
  const { skipSSL, tls: settings, grpcConfig } = request
  const tls = grpcConfig.tls ? { settings, skipSSL, alpn: ['h2'] } : undefined
  const reached = reach(endpoint, tls, context, progress, observed)
  const { socket, where } = await reached.catch(refuseAlpn)
  if (tls === undefined || observed.tls?.alpn === 'h2')
    return new Link(socket, where, context.signal)
  socket.destroy()
  throw noHttp2(where)
}

function noHttp2(where: string): TargetFailure {
  const message = `${where} does not offer HTTP/2 (ALPN h2), which gRPC needs`
  return targetFailure<GrpcCode>('HTTP2_NOT_SPOKEN', message, { where })
}

/** A server that offers other protocols than ours ends the handshake with an alert. */
function refuseAlpn(error: unknown): never {
  if (!(error instanceof TargetFailure)) throw error
  const { where, reason } = error.failure.details ?? {}
  throw String(reason).includes('NO_APPLICATION_PROTOCOL') ? noHttp2(String(where)) : error
}

async function converse(running: Running, link: Link, known: Prepared | undefined): Promise<void> {
  const { plan, probe, progress, startedAt } = running
  const { order, method } = known ?? (await prepareByReflection(running, link))
  const headers = { ...headersNow(plan, startedAt), ...order.headers }
  const answer = await call(link, { ...order, headers }, progress)
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
    const messages = await unpackAll(answer)
    if (method === undefined) takeHealth(probe, messages)
    else await takeMessages(running, link, messages, method)
    show(probe)
  } finally {
    answer.release()
  }
}

async function prepareByReflection(running: Running, link: Link): Promise<Prepared> {
  const { plan } = running
  const method = plan.method as MethodName
  return preparedFor(plan, method, await registryByReflection(running, link, method, plan.anyTypes))
}

/** The headers with the remaining time, for all hops of the call. */
function headersNow(plan: Plan, startedAt: number) {
  const leftMs = Math.max(1, Math.round(plan.deadlineMs - (performance.now() - startedAt)))
  return { ...plan.headers, 'grpc-timeout': `${leftMs}m` }
}

/** The types of the method's service, and further ones. */
async function registryByReflection(
  { plan, probe, progress, startedAt }: Running,
  link: Link,
  { service }: MethodName,
  further: Iterable<string>,
): Promise<FileRegistry> {
  const { observed } = probe
  const beganAt = performance.now()
  try {
    const headers = headersNow(plan, startedAt)
    const reflected = await reflect(link, { service, further }, headers, progress)
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

function takeHealth(probe: Probe, [message]: readonly Buffer[]): void {
  if (message === undefined) return
  const status = healthState(message)
  probe.observed.healthStatus = status
  probe.json = JSON.stringify({ status })
}

/** Requested types within an Any, at most; more are shown as bytes. */
const FURTHER_TYPES_MAX = 16

async function takeMessages(
  running: Running,
  link: Link,
  messages: readonly Buffer[],
  { registry, method }: NonNullable<Prepared['method']>,
): Promise<void> {
  const { plan, probe, context } = running
  let read = await readMessages(messages, method.output, registry, context.signal)
  if (read.unknown.size > 0 && plan.method !== undefined && !isByText(plan)) {
    const further = [...plan.anyTypes, ...read.unknown].slice(0, FURTHER_TYPES_MAX)
    const larger = await registryByReflection(running, link, plan.method, further)
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
