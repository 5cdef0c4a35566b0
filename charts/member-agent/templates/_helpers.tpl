{{- /* The name of the chart, or nameOverride. */}}
{{- define "member-agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The name of objects: the release, with the name of the chart unless the release contains it. */}}
{{- define "member-agent.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $release .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The selector of the Deployment. Immutable: never change it. */}}
{{- define "member-agent.selectorLabels" -}}
app.kubernetes.io/name: {{ include "member-agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "member-agent.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "member-agent.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "member-agent.serviceAccount" -}}
{{ include "member-agent.fullname" . }}-sa
{{- end }}

{{- /*
How the hub is trusted: CA_BUNDLE or HUB_CERTIFICATE_AUTHORITY, never both, which the agent refuses. A file counts only with
certificates, as before, and only where its path was set.
*/}}
{{- define "member-agent.authority" -}}
{{- if and .Values.useCAAuth .Values.config.CABundle (ne .Values.config.CABundle "ca-bundle-path") }}
- name: CA_BUNDLE
  value: {{ .Values.config.CABundle | quote }}
{{- else if .Values.config.hubCA }}
- name: HUB_CERTIFICATE_AUTHORITY
  value: {{ .Values.config.hubCA | quote }}
{{- end }}
{{- end }}

{{- /* The permissions of the agent outside of its namespace. The hub may not place these objects. */}}
{{- define "member-agent.ownObjects" -}}
{{- $name := include "member-agent.fullname" . }}
{{- printf "ClusterRole/%s-role,ClusterRoleBinding/%s-cluster-admin-binding" $name $name }}
{{- end }}

{{- define "member-agent.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end }}

{{- /* Rejects invalid values before anything is installed. */}}
{{- define "member-agent.refusals" -}}
{{- if not (has .Values.config.provider (list "secret" "azure")) }}
{{- fail (printf "config.provider=%s must be secret or azure" .Values.config.provider) }}
{{- end }}
{{- end }}
