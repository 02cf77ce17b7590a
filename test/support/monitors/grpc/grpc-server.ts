// Real gRPC servers for tests, built on @grpc/grpc-js: a shop that echoes, greets and counts; health; and
// server reflection of either version.
import { fileURLToPath } from 'node:url'
import {
  Metadata,
  Server,
  ServerCredentials,
  status,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServerWritableStream,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { loadSync, fromJSON } from '@grpc/proto-loader'
import { ReflectionService } from '@grpc/reflection'
import protobuf from 'protobufjs'

/** A running gRPC server. */
export interface GrpcServer extends AsyncDisposable {
  port: number
  /** Metadata and `:authority` of the newest call of the shop. */
  latestCall(): { metadata: Record<string, unknown>; authority: string; deadlineMs: number }
  close(): Promise<void>
}

/** Options of a server. */
export interface GrpcOptions {
  tls?: { cert: string; key: string; clientCa?: string }
  /** Versions of server reflection; default: both. */
  reflection?: readonly ('v1' | 'v1alpha')[]
  /** Service → its state as a number, empty for the whole server. */
  health?: Readonly<Record<string, number>>
}

const folder = fileURLToPath(new URL('../../../fixtures/grpc', import.meta.url))
const definition = loadSync('shop.proto', {
  includeDirs: [folder],
  keepCase: true,
  defaults: true,
  longs: String,
  oneofs: true,
})

const HEALTH = `syntax = "proto3"; package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse { int32 status = 1; }
service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); }`
const healthDefinition = fromJSON(protobuf.parse(HEALTH, { keepCase: true }).root.toJSON(), {
  defaults: true,
})

interface Question {
  name: string
  count: number
  status: status
  reason: string
}

type Unary<I> = (call: ServerUnaryCall<I, unknown>, done: sendUnaryData<unknown>) => void

/** Starts a server on a free port of loopback. */
export async function startGrpcServer(options: GrpcOptions = {}): Promise<GrpcServer> {
  const server = new Server()
  let latestCall = { metadata: {}, authority: '', deadlineMs: 0 }
  const note = (
    call: ServerUnaryCall<unknown, unknown> | ServerWritableStream<unknown, unknown>,
  ) => {
    const deadlineMs = Number(call.getDeadline()) - Date.now()
    latestCall = { metadata: call.metadata.getMap(), authority: call.getHost(), deadlineMs }
  }
  const shop = shopThat(note)
  server.addService(serviceOf(definition, 'shop.v1.Shop'), shop)
  server.addService(serviceOf(healthDefinition, 'grpc.health.v1.Health'), {
    Check: healthThat(options.health ?? { '': 1 }),
  })
  const { reflection = ['v1', 'v1alpha'] } = options
  const reflects = new ReflectionService(definition) as unknown as Record<
    'v1' | 'v1Alpha',
    { addToServer(server: Server): void }
  >
  if (reflection.includes('v1')) reflects.v1.addToServer(server)
  if (reflection.includes('v1alpha')) reflects.v1Alpha.addToServer(server)
  const port = await bind(server, options.tls)
  const close = () => {
    server.forceShutdown()
    return Promise.resolve()
  }
  return { port, latestCall: () => latestCall, close, [Symbol.asyncDispose]: close }
}

function serviceOf(from: typeof definition, name: string) {
  return from[name] as Parameters<Server['addService']>[0]
}

function bind(server: Server, tls: GrpcOptions['tls']): Promise<number> {
  const credentials =
    tls === undefined
      ? ServerCredentials.createInsecure()
      : ServerCredentials.createSsl(
          tls.clientCa === undefined ? null : Buffer.from(tls.clientCa),
          [{ private_key: Buffer.from(tls.key), cert_chain: Buffer.from(tls.cert) }],
          tls.clientCa !== undefined,
        )
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', credentials, (error, port) => {
      if (error === null) resolve(port)
      else reject(error)
    })
  })
}

function shopThat(
  note: (call: ServerUnaryCall<unknown, unknown> | ServerWritableStream<unknown, unknown>) => void,
): UntypedServiceImplementation {
  const echo: Unary<unknown> = (call, done) => {
    note(call)
    done(null, call.request)
  }
  const greet: Unary<Question> = (call, done) => {
    note(call)
    const { name, status: code, reason } = call.request
    const sent = new Metadata()
    sent.set('x-served-by', 'shop')
    sent.set('x-trace-bin', Buffer.from([0, 1, 2, 255]))
    call.sendMetadata(sent)
    const trailer = new Metadata()
    trailer.set('x-cost', '7')
    if (code !== status.OK) done({ code, details: reason, metadata: trailer })
    else done(null, { text: `hello ${name}` }, trailer)
  }
  const count = (call: ServerWritableStream<Question, unknown>) => {
    note(call)
    const { count: wanted, status: code, reason } = call.request
    for (let index = 0; index < wanted; index++) call.write({ text: `number ${index}`, index })
    if (code === status.OK) call.end()
    else call.emit('error', { code, details: reason })
  }
  return { Echo: echo, Greet: greet, Count: count }
}

function healthThat(states: Readonly<Record<string, number>>): Unary<{ service: string }> {
  return ({ request: { service } }, done) => {
    const state = states[service]
    if (state === undefined) done({ code: status.NOT_FOUND, details: 'unknown service' })
    else done(null, { status: state })
  }
}
