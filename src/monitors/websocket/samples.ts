// Prometheus samples of a WebSocket observation.
import type { Sample } from '../../contract/observation.ts'
import { connectionSamples } from '../metrics/connection-samples.ts'
import { tlsSamples } from '../metrics/tls-samples.ts'
import type { Probe } from './probe.ts'

const PHASES: Readonly<Record<string, string>> = {
  dnsMs: 'resolve',
  connectMs: 'connect',
  proxyMs: 'proxy',
  tlsMs: 'tls',
  handshakeMs: 'handshake',
  messageMs: 'message',
  pingMs: 'ping',
}

/** The samples of one observation, as `observed` of a WebSocket monitor has it. */
export function webSocketSamples(observed: Record<string, unknown>): Sample[] {
  const { phases, family, statusCode = 0, messages = 0, tls } = observed as Partial<Probe>
  const samples: Sample[] = [
    { name: 'probe_websocket_status_code', value: statusCode },
    { name: 'probe_websocket_messages', value: messages },
    { name: 'probe_websocket_ssl', value: tls === undefined ? 0 : 1 },
  ]
  samples.push(...connectionSamples('probe_websocket_duration_seconds', { family, phases }, PHASES))
  return tls === undefined ? samples : [...samples, ...tlsSamples(tls)]
}
