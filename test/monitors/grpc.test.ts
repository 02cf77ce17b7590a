// Aim: a gRPC check says exactly what the server did: health, unary and streamed calls by reflection and by
// a proto text, over plain HTTP/2, TLS and TLS with client certificates.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Context, Observation } from '../../src/monitors/monitor.ts'
import { grpc } from '../../src/monitors/grpc.ts'
import { startGrpcServer, type GrpcServer } from '../support/grpc-server.ts'
import { deadlineAfter, testContext } from '../support/monitor-context.ts'

type Wishes = Record<string, unknown>

let server: GrpcServer
beforeAll(async () => {
  server = await startGrpcServer({ health: { '': 1, unknown: 0, serving: 1, down: 2, gone: 3 } })
})
afterAll(() => server.close())

/** Runs a gRPC monitor with its deadline. */
async function run(
  grpcConfig: Wishes,
  request: Wishes = {},
  settings: Wishes = {},
  context: Partial<Context> = {},
): Promise<Observation> {
  const monitor = grpc.schema.parse({
    id: 'm',
    name: 'm',
    checkType: 'GRPC',
    request: {
      url: '127.0.0.1',
      port: server.port,
      grpcConfig: { tls: false, ...grpcConfig },
      ...request,
    },
    ...settings,
  })
  const signal = deadlineAfter(grpc.deadlineMs(monitor))
  return grpc.run(monitor, { ...testContext({ signal }), ...context })
}

const codes = ({ failures }: Observation) => failures.map(({ code }) => code)

describe('health', () => {
  test.each([
    ['the whole server', '', 'SERVING', []],
    ['SERVING', 'serving', 'SERVING', []],
    ['NOT_SERVING', 'down', 'NOT_SERVING', ['GRPC_NOT_SERVING']],
    ['UNKNOWN', 'unknown', 'UNKNOWN', ['GRPC_NOT_SERVING']],
    ['SERVICE_UNKNOWN is a state', 'gone', 'SERVICE_UNKNOWN', ['GRPC_NOT_SERVING']],
    ['NOT_FOUND is a status', 'nobody', undefined, ['GRPC_SERVICE_NOT_FOUND']],
  ])('%s', async (_, service, healthStatus, failures) => {
    const observation = await run({ mode: 'HEALTH', service })
    expect(codes(observation)).toEqual(failures)
    expect(observation.observed['healthStatus']).toBe(healthStatus)
  })
})
