// Runs one WebSocket monitor for tests of its observation.
import { websocket } from '../../../../src/monitors/websocket/index.ts'
import { checkMonitor } from '../check-monitor.ts'
import type { ContextOptions } from '../monitor-context.ts'
import { type Behaviour, startWebSocketServer } from './websocket-server.ts'

/** Checks `request`; `more` adds to the definition. */
export const checkWebSocket = (request: object, more?: object, options?: ContextOptions) =>
  checkMonitor(websocket, request, more, options)

/** Checks a server of this behaviour. */
export async function against(behaviour: Behaviour, request: object = {}, more: object = {}) {
  await using server = await startWebSocketServer(behaviour)
  return await checkWebSocket({ url: `ws://${server.authority}/`, ...request }, more)
}
