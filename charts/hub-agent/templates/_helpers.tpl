{{- /* The chart's name, or what takes its place. */}}
{{- define "hub-agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* What objects are called: the release, with the chart's name unless that is part of it. */}}
{{- define "hub-agent.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $release .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* What a Deployment finds its pods by. Never to be changed: it is immutable. */}}
{{- define "hub-agent.selectorLabels" -}}
app.kubernetes.io/name: {{ include "hub-agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "hub-agent.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "hub-agent.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "hub-agent.serviceAccount" -}}
{{ include "hub-agent.fullname" . }}-sa
{{- end }}

{{- /* The Secret in which cert-manager keeps the webhooks' certificate. */}}
{{- define "hub-agent.certificateSecret" -}}
{{ default "fleet-webhook-server-cert" .Values.webhookCertSecretName }}
{{- end }}

{{- /* Values that contradict each other are refused before anything is installed. */}}
{{- define "hub-agent.refusals" -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.useCertManager) }}
{{- fail "replicaCount > 1 requires useCertManager=true: without cert-manager every agent shows a webhook certificate of its own, and the API server trusts only one of them" }}
{{- end }}
{{- if and .Values.useCertManager (not .Values.enableWorkload) }}
{{- fail "useCertManager=true requires enableWorkload=true: cert-manager itself runs on the hub" }}
{{- end }}
{{- if and .Values.enableAdmissionPolicyManager .Values.admissionPolicyManagerConfigName }}
{{- if not (hasKey .Values.additionalConfigData .Values.admissionPolicyManagerConfigName) }}
{{- fail (printf "admissionPolicyManagerConfigName=%s is no key of additionalConfigData" .Values.admissionPolicyManagerConfigName) }}
{{- end }}
{{- end }}
{{- end }}
